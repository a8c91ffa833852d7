// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"The body of POST /v1/query as Databend's clients send it. Members that are not named here are passed over.","type":"object","required":["sql"],"properties":{"sql":{"type":"string"},"params":{"type":["array","object","null"]},"session":{"type":["object","null"],"properties":{"database":{"type":["string","null"]},"settings":{"type":["object","null"],"additionalProperties":{"type":"string"}},"internal":{"type":["string","null"]},"txn_state":{"type":["string","null"]}}},"pagination":{"type":["object","null"],"properties":{"wait_time_secs":{"type":["integer","null"],"minimum":-2147483648,"maximum":2147483647},"max_rows_per_page":{"type":["integer","null"],"minimum":1,"maximum":9007199254740991},"max_rows_in_buffer":{"type":["integer","null"],"minimum":1,"maximum":9007199254740991}}}}};

function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if((data.sql === undefined) && (missing0 = "sql")){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.sql !== undefined){
const _errs2 = errors;
if(typeof data.sql !== "string"){
validate10.errors = [{instancePath:instancePath+"/sql",schemaPath:"#/properties/sql/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid0 = _errs2 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.params !== undefined){
const _errs4 = errors;
if(typeof data.params != "object"){
validate10.errors = [{instancePath:instancePath+"/params",schemaPath:"#/properties/params/type",keyword:"type",params:{type: schema11.properties.params.type},message:"must be array,object,null"}];
return false;
}
var valid0 = _errs4 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.session !== undefined){
let data2 = data.session;
const _errs6 = errors;
if((!(data2 && typeof data2 == "object" && !Array.isArray(data2))) && (data2 !== null)){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/type",keyword:"type",params:{type: schema11.properties.session.type},message:"must be object,null"}];
return false;
}
if(errors === _errs6){
if(data2 && typeof data2 == "object" && !Array.isArray(data2)){
if(data2.database !== undefined){
let data3 = data2.database;
const _errs8 = errors;
if((typeof data3 !== "string") && (data3 !== null)){
validate10.errors = [{instancePath:instancePath+"/session/database",schemaPath:"#/properties/session/properties/database/type",keyword:"type",params:{type: schema11.properties.session.properties.database.type},message:"must be string,null"}];
return false;
}
var valid1 = _errs8 === errors;
}
else {
var valid1 = true;
}
if(valid1){
if(data2.settings !== undefined){
let data4 = data2.settings;
const _errs10 = errors;
if((!(data4 && typeof data4 == "object" && !Array.isArray(data4))) && (data4 !== null)){
validate10.errors = [{instancePath:instancePath+"/session/settings",schemaPath:"#/properties/session/properties/settings/type",keyword:"type",params:{type: schema11.properties.session.properties.settings.type},message:"must be object,null"}];
return false;
}
if(errors === _errs10){
if(data4 && typeof data4 == "object" && !Array.isArray(data4)){
for(const key0 in data4){
const _errs13 = errors;
if(typeof data4[key0] !== "string"){
validate10.errors = [{instancePath:instancePath+"/session/settings/" + key0.replace(/~/g, "~0").replace(/\//g, "~1"),schemaPath:"#/properties/session/properties/settings/additionalProperties/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid2 = _errs13 === errors;
if(!valid2){
break;
}
}
}
}
var valid1 = _errs10 === errors;
}
else {
var valid1 = true;
}
if(valid1){
if(data2.internal !== undefined){
let data6 = data2.internal;
const _errs15 = errors;
if((typeof data6 !== "string") && (data6 !== null)){
validate10.errors = [{instancePath:instancePath+"/session/internal",schemaPath:"#/properties/session/properties/internal/type",keyword:"type",params:{type: schema11.properties.session.properties.internal.type},message:"must be string,null"}];
return false;
}
var valid1 = _errs15 === errors;
}
else {
var valid1 = true;
}
if(valid1){
if(data2.txn_state !== undefined){
let data7 = data2.txn_state;
const _errs17 = errors;
if((typeof data7 !== "string") && (data7 !== null)){
validate10.errors = [{instancePath:instancePath+"/session/txn_state",schemaPath:"#/properties/session/properties/txn_state/type",keyword:"type",params:{type: schema11.properties.session.properties.txn_state.type},message:"must be string,null"}];
return false;
}
var valid1 = _errs17 === errors;
}
else {
var valid1 = true;
}
}
}
}
}
}
var valid0 = _errs6 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.pagination !== undefined){
let data8 = data.pagination;
const _errs19 = errors;
if((!(data8 && typeof data8 == "object" && !Array.isArray(data8))) && (data8 !== null)){
validate10.errors = [{instancePath:instancePath+"/pagination",schemaPath:"#/properties/pagination/type",keyword:"type",params:{type: schema11.properties.pagination.type},message:"must be object,null"}];
return false;
}
if(errors === _errs19){
if(data8 && typeof data8 == "object" && !Array.isArray(data8)){
if(data8.wait_time_secs !== undefined){
let data9 = data8.wait_time_secs;
const _errs21 = errors;
if((!(((typeof data9 == "number") && (!(data9 % 1) && !isNaN(data9))) && (isFinite(data9)))) && (data9 !== null)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/type",keyword:"type",params:{type: schema11.properties.pagination.properties.wait_time_secs.type},message:"must be integer,null"}];
return false;
}
if(errors === _errs21){
if((typeof data9 == "number") && (isFinite(data9))){
if(data9 > 2147483647 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data9 < -2147483648 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: -2147483648},message:"must be >= -2147483648"}];
return false;
}
}
}
}
var valid3 = _errs21 === errors;
}
else {
var valid3 = true;
}
if(valid3){
if(data8.max_rows_per_page !== undefined){
let data10 = data8.max_rows_per_page;
const _errs23 = errors;
if((!(((typeof data10 == "number") && (!(data10 % 1) && !isNaN(data10))) && (isFinite(data10)))) && (data10 !== null)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/type",keyword:"type",params:{type: schema11.properties.pagination.properties.max_rows_per_page.type},message:"must be integer,null"}];
return false;
}
if(errors === _errs23){
if((typeof data10 == "number") && (isFinite(data10))){
if(data10 > 9007199254740991 || isNaN(data10)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/maximum",keyword:"maximum",params:{comparison: "<=", limit: 9007199254740991},message:"must be <= 9007199254740991"}];
return false;
}
else {
if(data10 < 1 || isNaN(data10)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid3 = _errs23 === errors;
}
else {
var valid3 = true;
}
if(valid3){
if(data8.max_rows_in_buffer !== undefined){
let data11 = data8.max_rows_in_buffer;
const _errs25 = errors;
if((!(((typeof data11 == "number") && (!(data11 % 1) && !isNaN(data11))) && (isFinite(data11)))) && (data11 !== null)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/type",keyword:"type",params:{type: schema11.properties.pagination.properties.max_rows_in_buffer.type},message:"must be integer,null"}];
return false;
}
if(errors === _errs25){
if((typeof data11 == "number") && (isFinite(data11))){
if(data11 > 9007199254740991 || isNaN(data11)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/maximum",keyword:"maximum",params:{comparison: "<=", limit: 9007199254740991},message:"must be <= 9007199254740991"}];
return false;
}
else {
if(data11 < 1 || isNaN(data11)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid3 = _errs25 === errors;
}
else {
var valid3 = true;
}
}
}
}
}
var valid0 = _errs19 === errors;
}
else {
var valid0 = true;
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
